"""What people look at: the page of a bundle, pictures of encodings, a server for browsers, the site of the documents.

* `pages` makes the one HTML file of a bundle. `serving` hands a bundle to browsers, live or as a site of files.
* `plots` draws with matplotlib. `site` makes the pages of the documents.

It shows verdicts and never makes one.
"""
