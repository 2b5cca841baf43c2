"""Tests in folders like those of the packages; what several folders need lies here."""
