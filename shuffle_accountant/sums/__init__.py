"""The positive part of a sum of n i.i.d. message values: ``E[(v(Y_1) + … + v(Y_n))_+]``."""
