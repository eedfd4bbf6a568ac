"""What people look at: the page of a bundle, pictures of encodings, a server for browsers, a site of a bundle.

* `pages` makes the one HTML file of a bundle. `serving` hands a bundle to browsers, live or as a site of files.
* `plots` draws with matplotlib.

It shows verdicts and never makes one.
"""
