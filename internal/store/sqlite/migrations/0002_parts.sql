-- Which part of its host a sample belongs to: "cpu3", "eth0"; "" is the whole.
ALTER TABLE samples ADD COLUMN part TEXT NOT NULL DEFAULT '';
