"""The labeling loop: train the SVM on the log's labels, then select the next item."""
