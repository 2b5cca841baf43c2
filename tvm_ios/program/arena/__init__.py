"""One arena for a program's intermediate memory: who may share bytes, and where all lie."""
