"""Writers of the index: `segment_builder` makes segments, `append` and `maintenance` publish them."""
