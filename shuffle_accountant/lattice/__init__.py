"""Privacy losses on an equidistant grid: discretisation and convolution, both with a direction."""
