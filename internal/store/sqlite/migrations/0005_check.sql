-- What a check found beside its runs, and what it was asked.

ALTER TABLE sessions ADD COLUMN check_json TEXT NOT NULL DEFAULT 'null';
