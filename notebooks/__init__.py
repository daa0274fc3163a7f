"""The chapters: sources in `src/`, built notebooks beside this file, and the command that builds them."""
