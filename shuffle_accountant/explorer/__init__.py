"""A page to try protocols out with sliders (extra ``explore``: marimo and Matplotlib).

`settings` says what can be chosen and which code stands for it, `answers` computes what is shown
with the public interface alone, `app` is the page, and `serving` opens it.
"""
