"""The templates that are known by name."""

from stages.chat.chatml import CHATML
from stages.chat.llama3 import LLAMA3
from stages.chat.mistral import MISTRAL

TEMPLATES = {template.name: template for template in (CHATML, LLAMA3, MISTRAL)}
