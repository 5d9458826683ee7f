"""Launch: a run as a job of a cluster's scheduler, which is put into the queue again if it stops."""
