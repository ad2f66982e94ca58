"""The paper's figures with certified brackets: one script per figure; see ../README.md."""
