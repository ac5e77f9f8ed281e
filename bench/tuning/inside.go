package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/tune"
)

// The addresses of the two hosts of a lab.
const (
	nearAddress = "10.99.0.1"
	farAddress  = "10.99.0.2"
)

// nothingHelped is the exit code of a search that left the path as it was (docs/faults.md).
const nothingHelped = 8

// inside runs in the near host of a lab: it tunes the pair as two separate hosts, and records
// the settings of both before and after.
func inside(ctx context.Context, args []string) error {
	program, name := args[0], args[1]
	chosen, err := choose(name)
	if err != nil {
		return err
	}
	c := chosen[0]
	far, err := otherHost()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tuning-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	enter := []string{"nsenter", "--net=" + far}
	tree := func() (string, error) {
		near, err1 := output(ctx, self, "tree")
		there, err2 := output(ctx, enter[0], enter[1], self, "tree")
		return string(near) + "far:\n" + string(there), errors.Join(err1, err2)
	}
	before, err := tree()
	if err != nil {
		return err
	}
	agent := func(address, host string, in ...string) string {
		words := append([]string{"exec:" + address}, in...)
		return strings.Join(append(words, program, "agent", "--state", filepath.Join(dir, host), "--interface", "eth0", fmt.Sprintf("--link-rate=%.0f", c.Ceiling)), " ")
	}
	db := filepath.Join(dir, "r.db")
	began := time.Now()
	var guard []string // the default guards
	if c.Guard != "" {
		guard = append(guard, "--guard", c.Guard)
	}
	said, progress, err := outputs(ctx, program, append([]string{"tune", "--lines", "--from", agent(nearAddress, "near"), agent(farAddress, "far", enter...), "--direction", c.Direction,
		"--seed", "1", "--json", "--db", db}, guard...)...)
	var ended *exec.ExitError
	if nothing := errors.As(err, &ended) && ended.ExitCode() == nothingHelped; err != nil && !nothing {
		return err
	}
	t := tuned{Seconds: time.Since(began).Seconds(), Announced: announced(progress), Terminal: progress}
	after, err := tree()
	if err != nil {
		return err
	}
	t.Changed = difference(before, after)
	if err := t.read(ctx, program, db, said); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(t)
}

// forecast is what tune says before its first run: "about 1 min 22 s in all where a setting
// helps a lot, 6 s where there is nothing to gain".
var forecast = regexp.MustCompile(`(?m)^about (?:(\d+) min ?)?(?:([\d.]+) s )?in all where a setting helps a lot`)

// announced returns the time that tune announced, in seconds; 0 if it announced none.
func announced(progress string) float64 {
	m := forecast.FindStringSubmatch(progress)
	if m == nil {
		return 0
	}
	minutes, _ := strconv.ParseFloat(m[1], 64) // an empty one is 0
	seconds, _ := strconv.ParseFloat(m[2], 64)
	return 60*minutes + seconds
}

// read stores the document of the search, and its proof.
func (t *tuned) read(ctx context.Context, program, db string, said []byte) error {
	var doc struct {
		Record tune.Record
		Proof  string
		Proven bool
	}
	if err := json.Unmarshal(said, &doc); err != nil {
		return err
	}
	t.Record, t.Proven, t.Search = doc.Record, doc.Proven, doc.Record.Runs+1 // the first test
	t.Runs = t.Search
	t.Record.Inputs = nil
	if doc.Proof == "" {
		return nil
	}
	text, err := output(ctx, program, "show", doc.Proof, "--json=full", "--db", db)
	if err != nil {
		return err
	}
	var proof struct{ Session model.Session }
	if err := json.Unmarshal(text, &proof); err != nil {
		return err
	}
	t.Runs += len(proof.Session.Runs)
	t.Proof.Verdicts = proof.Session.Verdicts
	return nil
}

// otherHost returns the network namespace of the lab's other host.
func otherHost() (string, error) {
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return "", err
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("lab-init\x00host\x00")) {
			continue
		}
		ns := filepath.Join(filepath.Dir(file), "ns/net")
		if of, err := os.Readlink(ns); err == nil && of != own {
			return ns, nil
		}
	}
	return "", errors.New("the lab's other host is not to be seen")
}

// printTree writes every network setting of this host, and its interface.
func printTree(w io.Writer) error {
	out := bufio.NewWriter(w)
	err := filepath.WalkDir("/proc/sys/net", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(path, "nf_conntrack_count") {
			return nil // unreadable files and counters
		}
		if text, err := os.ReadFile(path); err == nil {
			fmt.Fprintf(out, "%s = %q\n", path, text)
		}
		return nil
	})
	for _, args := range [][]string{{"ip", "-d", "-o", "link", "show", "eth0"}, {"ip", "route", "show"}, {"tc", "qdisc", "show", "dev", "eth0"}} {
		text, wrong := output(context.Background(), args[0], args[1:]...)
		err = errors.Join(err, wrong)
		fmt.Fprintf(out, "%s\n", text)
	}
	return errors.Join(err, out.Flush())
}

// difference lists the lines that only one of before and after has.
func difference(before, after string) string {
	var out []string
	for _, side := range []struct{ sign, a, b string }{{"-", before, after}, {"+", after, before}} {
		has := map[string]int{}
		for line := range strings.Lines(side.b) {
			has[line]++
		}
		for line := range strings.Lines(side.a) {
			if has[line]--; has[line] < 0 {
				out = append(out, side.sign+strings.TrimSpace(line))
			}
		}
	}
	return strings.Join(out, "; ")
}
