"""A page that shows an executable: one file of HTML that needs no network.

- document: what a page shows, as plain data; runs and schedules become it
- inside_kernels: rTasks of persistent kernels on their vEUs, where a GPU runs them
- page: the document and the files below in one page, by the template page.html
- page.css and the scripts in scripts/, which say at their heads what they do
- vendor/: d3 and dagre as their authors released them, with their licences and checksums
"""
