package plain_test

import (
	"testing"

	"linerate/internal/core/plain"
	"linerate/internal/must"
)

func TestDatabases(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://db/lab":                                        "postgres://db/lab",
		"--db=postgresql://anna:s3cret@db:5433/lab":                "--db=postgresql://anna:...@db:5433/lab",
		"postgres://anna:a/b?c#d@e@db/lab":                         "postgres://anna:...@db/lab",
		"postgres://anna@db/lab?password=s3cret&sslmode=require":   "postgres://anna@db/lab?password=...&sslmode=require",
		"postgres://db/lab?sslmode=require&sslpassword=s3cret":     "postgres://db/lab?sslmode=require&sslpassword=...",
		"run --db postgres://a:b@c/d --yes, or postgres://e:f@g/h": "run --db postgres://a:...@c/d --yes, or postgres://e:...@g/h",
		"postgres://anna:%zz@db:port/lab":                          "postgres://anna:...@db:port/lab",
		"/home/anna/results.db":                                    "/home/anna/results.db",
		"postgres://postgres@/lab?host=/run/postgresql&port=5433":  "postgres://postgres@/lab?host=/run/postgresql&port=5433",
		"a mail to anna:b@example.org is no address of a database": "a mail to anna:b@example.org is no address of a database",
	} {
		must.Equal(t, plain.Databases(text), want, "%s", text)
	}
}
