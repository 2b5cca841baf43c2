"""The tables and figures of the five texts that this project implements, ours beside theirs.

``texts/``
    What was published: a file a text, with every table and figure, where it is, and its values.
``catalogue.py``
    These files, read: texts, and their tables and figures.
``row.py``
    A published value beside ours: how ours was had, and how far both agree.
``registry.py``
    Which function makes the rows of a table or figure.
``ios``, ``rammer``, ``graphturbo``, ``memory``
    These functions, system by system; each folder's ``rows.py`` lists them.
``steps.py``
    What was computed already with this revision of the code.
``reproduce.py``
    All rows that are asked for, several at once.
``document.py``
    What all came to, as one JSON document, counted by agreement.

How rows are added
------------------
1. The published values stand in ``texts/NAME.toml``, under the table or figure. If nothing is to be
   computed, they say so themselves: ``same_as`` another table, an ``illustration`` (which names the
   test or page that shows the same), or ``not_possible`` (and why), and that is all.
2. Otherwise a function of the system's folder takes the published values and a
   :class:`benchmarks.papers.steps.Steps`, and yields a :class:`benchmarks.papers.row.Row` for each
   value, whose label is the names that lead to it, between commas; more rows may follow. Work of
   more than a second is done by ``steps.once(function, *arguments)``: it is kept on disk, shared
   by all tables that ask for the same, and survives a kill. It takes and gives plain data.
3. One line in the folder's ``rows.py``: the name, such as ``ios-thesis/table-3.1``, and the
   function.

A row whose value differs by more than 25 % says why in its ``note``. What differs for a reason of
the method (other hardware, no measured kernels) is computed by the same algorithm as everywhere
else and never fitted to the published value, unless the note says so.
"""
