// Writes what each encoding of the WHATWG Encoding Standard makes of each character, as JSON.
//
//   npm install --prefix DIR @exodus/bytes
//   node release/web_encodings.mjs DIR/node_modules/@exodus/bytes > whole.json
//   python release/web_encodings.py whole.json
//
// The package follows the indexes of the standard (https://encoding.spec.whatwg.org/#indexes), those of
// gb18030-2022 among them; text-encoding 0.7.0, which holds the indexes of 2018, agrees but for these.
const [, , place] = process.argv;
const { TextDecoder } = await import(`${place}/encoding.js`);
const { default: labels } = await import(`${place}/fallback/encoding.labels.js`);

const decoded = (name, bytes) => {
  try {
    return new TextDecoder(name, { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes));
  } catch {
    return null;
  }
};
const hex = (bytes) => bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
const characters = {};
const add = (name, bytes, around = (one) => one) => {
  const text = decoded(name, around(bytes));
  if (text !== null) characters[name][hex(bytes)] = text;
};
const range = (first, last) => Array.from({ length: last - first + 1 }, (_, n) => first + n);

for (const name of Object.keys(labels)) {
  if (["utf-8", "utf-16le", "utf-16be", "replacement"].includes(name)) continue;
  characters[name] = {};
  if (name === "iso-2022-jp") {
    for (const a of range(0x21, 0x7e)) {
      for (const b of range(0x21, 0x7e)) add(name, [a, b], (two) => [0x1b, 0x24, 0x42, ...two]);
    }
    continue;
  }
  for (const a of range(0x80, 0xff)) add(name, [a]);
  if (!["gbk", "gb18030", "big5", "euc-jp", "euc-kr", "shift_jis"].includes(name)) continue;
  // an ASCII byte behind a lead byte that it does not follow is a character of its own
  for (const a of range(0x81, 0xfe)) {
    if (characters[name][hex([a])] !== undefined) continue;
    for (const b of range(0x40, 0xff)) add(name, [a, b]);
  }
  if (name === "euc-jp") {
    for (const a of range(0xa1, 0xfe)) for (const b of range(0xa1, 0xfe)) add(name, [0x8f, a, b]);
  }
  if (name.startsWith("gb")) {
    for (const a of range(0x81, 0x84)) {
      for (const b of range(0x30, 0x39)) {
        for (const c of range(0x81, 0xfe)) for (const d of range(0x30, 0x39)) add(name, [a, b, c, d]);
      }
    }
  }
}
process.stdout.write(JSON.stringify({ labels, characters }));
