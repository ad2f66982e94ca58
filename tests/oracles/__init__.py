"""Independent oracles: exact enumeration that shares no code with the package.

Nothing in this folder but ``hostile``, which asks it, imports ``shuffle_accountant``. Each file has
one job:

* ``precision``: the 50-digit arithmetic context that the others use,
* ``enumeration``: exact laws of shuffled multisets and their hockey-stick divergences,
* ``clones``: the clones pair atom by atom, subsampled and composed,
* ``one_round``: one round of clones for thousands of users, as a sum over the number of clones,
* ``two_rounds``: two rounds for thousands of users, in doubles but without a grid,
* ``binomial``: binomial masses and tails up to 1e12 trials,
* ``blanket``: targets among decoys that send the blanket, by counting, in 50 digits,
* ``response``: the two adversaries of k-ary randomized response, atom by atom,
* ``letter_classes``: messages of a channel grouped by their likelihood ratios,
* ``gaussian``: normal noise, one message in closed form and two by quadrature, in 50 digits,
* ``few_gaussians``: up to some ten messages of normal noise, with relative accuracy in doubles,
* ``gaussian_bounds``: elementary bounds for many messages of normal noise, far in the tail,
* ``laplace``: Laplace noise, one message in closed form and two by quadrature,
* ``convolution``: sums of independent lattice variables, in rational arithmetic,
* ``reidentification``: naming the target's message, by Bayes' rule word by word,
* ``reidentification_noise``: the same under Laplace and Gaussian noise, by quadrature,
* ``mutual_information``: information about places, messages and inputs, by listing outcomes,
* ``references``: values that come from other code,
* ``exact_channels``: channels on datasets in fractions, from their definitions,
* ``loads``: expected largest and smallest counts of balls in bins, by counting,
* ``channels``: random locally private channels,
* ``orders``: permutations, their distances and d-sigma-private shuffles, by listing them all,
* ``leavers``: who leaves a set of slots, by listing permutations, slot by slot and by moved points,
* ``pointing_out``: two adversaries against a shuffled group, played out in full,
* ``people``: several messages of a user, imperfect shufflers, kept answers, thresholds, by listing,
* ``rational``: channels, clones and their compositions in integers, for strict comparisons,
* ``hostile``: arguments that nobody means, and what an answer to them must not be,
* ``containment``: "the bracket contains the truth", in exact comparisons.
"""
