"""Central DP-SGD through Opacus: records dealt or shuffled into batches, noise by Opacus."""
