"""A policy fitted to a goal: on one part of what happened, judged on another that the search never saw.

`space` says what may be moved and how far, `goal` what is wanted, `searching` looks (optuna), `fitting` puts the three
together and compares what was won where it was looked for with what is left elsewhere; `tuning.policy_file` is the new
policy as a file whose changed lines say what they were. `evenload tune` is the only caller.
"""
