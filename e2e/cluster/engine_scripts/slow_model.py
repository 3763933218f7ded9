"""Writes the tiny model with larger sizes: 28 million parameters, so that prompts of some thousand tokens take seconds on a core."""

import sys
from pathlib import Path

import tiny_model

if __name__ == "__main__":
    tiny_model.HIDDEN, tiny_model.LAYERS, tiny_model.HEADS = 512, 8, 8
    tiny_model.main(Path(sys.argv[1]))
