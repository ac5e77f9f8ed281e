-- What a person wrote beside a session.
ALTER TABLE sessions ADD COLUMN note TEXT NOT NULL DEFAULT '';
