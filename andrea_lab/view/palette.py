"""The colours of every picture and page: Okabe and Ito's, which readers with any common colour blindness tell apart."""

BLUE, ORANGE, GREEN, RED, PURPLE, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"
SOURCE_COLOURS = (SKY, ORANGE, GREEN, PURPLE, RED, "#999933", "#882255", "#44AA99")
RUN_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)
INK, FAINT, PALE, GRID = "#222222", "#9a9a9a", "#a3c6e0", "#e6e6e6"
NOTE = "#A84A00"  # words that ask for attention, dark enough to read on white
