"""A study as one HTML file for people and as JSON for scripts.

`shapes` reduces what was measured to what can be drawn, `workloads.owner_profiles` turns it into coordinates, `charts`
and `stories` are the parts of the page, `page` puts them together and lets the template in this directory write it;
`document` is the JSON. Nothing here decides or measures. Whatever comes from a cluster (names above all) is text to be
escaped: the template engine does so everywhere.
"""
