-- How a guard of the plan stands for a setting, and what the baseline compared
-- with itself showed; NULL and null in sessions of before.
ALTER TABLE verdicts ADD COLUMN guard_json TEXT;
ALTER TABLE sessions ADD COLUMN noise_json TEXT NOT NULL DEFAULT 'null';
