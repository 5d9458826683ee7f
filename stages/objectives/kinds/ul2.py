"""UL2's mixtures of denoisers, as the program knows them."""

from stages.objectives.kind import Composite
from stages.objectives.questions import Form, Questions
from stages.objectives.ul2 import UL2, denoisers

DENOISERS = Composite(config=UL2, components=denoisers, questions=Questions(Form.SPAN, Form.SPAN))
