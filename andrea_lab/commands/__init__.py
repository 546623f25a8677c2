"""The commands of the command line, a file each; `andrea_lab.cli` puts them together."""
