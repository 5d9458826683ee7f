"""The methods of deduplication, in the order of preference of the evidence.

Where a document goes for a witness by several methods, the first of this table is named.
"""

from pipeline.steps.dedup.containment import CONTAINMENT
from pipeline.steps.dedup.equal import EQUAL_VALUES, EXACT_TEXTS
from pipeline.steps.dedup.method import Method
from pipeline.steps.dedup.minhash import MINHASH
from pipeline.steps.dedup.semantic import SEMANTIC

METHODS: tuple[Method, ...] = (EXACT_TEXTS, MINHASH, CONTAINMENT, EQUAL_VALUES, SEMANTIC)
