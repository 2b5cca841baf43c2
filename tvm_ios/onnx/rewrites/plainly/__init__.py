"""Rewrite operators into others that TVM's importer reads correctly.

- registry: the rewritten operators and their rewrites
- misread: operators that the importer reads wrongly
- arithmetic: types that TVM does not compute with
- divisions: undefined integer quotients and remainders
- declared: operators whose size is an input, by the declared shape of the result
- statistics: layer norms whose means and deviations are read
- normalisations: norms, and determinants
- places: reversed sequences and caches, as gathers of rows
- windows: columns of windows, and indices of maxima in windows, as gathers
- fourier: Fourier transforms as products
- deform: deformable convolutions
- n_grams: counts of n-grams
"""
