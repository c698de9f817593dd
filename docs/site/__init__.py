"""The site: pages made of the same Markdown that docs/ has, by `make docs`.

    build.py        the command: stage, looks, Sphinx, the check of links
    stage.py        Markdown of the repository, laid out for Sphinx, with links that lead somewhere
    excerpts.py     our own code by its name, so that no page shows code that is not there
    looks.py        pictures and saved looks, of small models that are trained while the site is built
    verdicts.py     what the lab measured of a claim
    reference.py    the reference of commands, settings and names, from the code
    peers.py        what was measured beside other tools
    directives.py   the words that our Markdown has for these
    links.py        every link of the finished site, followed without a network
    timed.py        the commands of a page as they stand there, each with its seconds
    conf.py         what Sphinx is told
"""
