"""Sources of text, tokenisers and batches."""

from andrea_lab.text.batches import IGNORED, batch, held_out_batches, windows_per_epoch
from andrea_lab.text.documents import TextError, join, split
from andrea_lab.text.sources import Source, load_text_file, source, sources
from andrea_lab.text.tokenizer import BOUNDARY, BYTES, ByteTokenizer, Tokenizer, check_vocab, to_text

__all__ = [
    "BOUNDARY",
    "BYTES",
    "IGNORED",
    "ByteTokenizer",
    "Source",
    "TextError",
    "Tokenizer",
    "batch",
    "check_vocab",
    "held_out_batches",
    "join",
    "load_text_file",
    "source",
    "sources",
    "split",
    "to_text",
    "windows_per_epoch",
]
