"""How long searches take.

fleet.py      a search measured on one, two and three servers, of which one is killed
networks.py   seconds of `stats` and of a search, network by network
search.py     the dynamic program alone
sweep.py      a sweep by one worker and two, of which one is killed
"""
