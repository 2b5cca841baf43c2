"""Operators that are written in others which TVM's importer reads rightly.

- registry: which ones, by whom
- misread: what it reads wrongly
- arithmetic: types that it does not compute with
- divisions: integer quotients and remainders that there are not
- declared: operators of a size that is an input, which the declared shape says too
- statistics: layer norms whose means and deviations are read
- normalisations: norms, and determinants
- places: reversed sequences and caches, as gathers of rows
- windows: columns of windows, and where the largest of windows lie, as gathers
- fourier: Fourier transforms as products
- deform: convolutions of pixels that lie where an input says
- n_grams: how often groups of numbers stand in a row
"""
