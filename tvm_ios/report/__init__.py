"""A self-contained HTML page that shows an executable.

- document: the page's content as plain data, made of runs and schedules
- inside_kernels: rTasks of persistent kernels on the vEUs of a GPU
- page: the document and the files below in one page, by the template page.html
- page.css and the scripts in scripts/, described in comments at their heads
- vendor/: d3 and dagre as their authors released them, with their licences and checksums
"""
