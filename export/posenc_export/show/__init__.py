"""What people look at: the page of a bundle, a server for browsers, pictures, and the site of the documents."""
