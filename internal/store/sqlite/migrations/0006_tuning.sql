-- The course of a search for better settings, one object that package tune reads;
-- empty for other sessions.
ALTER TABLE sessions ADD COLUMN tuning_json TEXT NOT NULL DEFAULT '';
