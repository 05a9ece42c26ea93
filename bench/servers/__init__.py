"""The servers that a bench drives, each alone on the machine: started on a fresh folder, stopped, removed."""
