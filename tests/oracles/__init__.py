"""Independent oracles: exact enumeration that shares no code with the package.

Nothing in this folder imports ``shuffle_accountant``. Each file has one job:

* ``precision``: the 50-digit arithmetic context that the others use,
* ``enumeration``: exact laws of shuffled multisets and their hockey-stick divergences,
* ``clones``: the clones pair atom by atom, subsampled and composed,
* ``one_round``: one round of clones for thousands of users, as a sum over the number of clones,
* ``two_rounds``: two rounds for thousands of users, in doubles but without a grid,
* ``binomial``: binomial masses and tails up to 1e12 trials,
* ``channels``: random locally private channels,
* ``containment``: "the bracket contains the truth", in exact comparisons.
"""
