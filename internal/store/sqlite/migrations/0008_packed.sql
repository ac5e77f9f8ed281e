-- The samples of a run are packed, so many a part, in the form that package packed
-- describes: an hour at one a second costs below 1 MB. Behind this step migrate.go moves
-- those of before here and drops their table. linerate report --format csv and linerate
-- show --json=full --samples have them as text.
CREATE TABLE sample_parts (
    run    INTEGER NOT NULL REFERENCES runs (pk) ON DELETE CASCADE,
    part   INTEGER NOT NULL, -- 0, 1 …
    count  INTEGER NOT NULL, -- samples in it
    packed BLOB    NOT NULL,
    PRIMARY KEY (run, part)
) STRICT;
