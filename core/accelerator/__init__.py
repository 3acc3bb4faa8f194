"""Full scans of a pool on a graphics processor, with the results of the processors."""
