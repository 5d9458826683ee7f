"""Export: a dataset, stages or kept texts in the files of another trainer."""
