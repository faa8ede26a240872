"""The commands of `parquet-bloom`, and the groups `index` and `zones`; no command imports another."""
