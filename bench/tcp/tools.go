package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/sockio"
)

// slack is what a run may take beyond its duration.
const slack = 15 * time.Second

// output is what a run of two programs gave.
type output struct {
	server, client []byte
	cpu            time.Duration // of both
	others         float64       // cores that were busy with anything else
}

// both runs the server in the far namespace, then the client in the near one.
func both(ctx context.Context, port string, server, client []string, d time.Duration) (output, error) {
	ctx, cancel := context.WithTimeout(ctx, d+slack)
	defer cancel()
	var serverOut, clientOut bytes.Buffer
	s := inSpace(ctx, farSpace, server[0], server[1:]...)
	s.Stdout = &serverOut
	if err := s.Start(); err != nil {
		return output{}, fmt.Errorf("start %s: %w", name(s), err)
	}
	c := inSpace(ctx, nearSpace, client[0], client[1:]...)
	c.Stdout = &clientOut
	failed := listening(ctx, port)
	begun := time.Now()
	before, err := sockio.SystemCPU()
	if failed = errors.Join(failed, err); failed == nil {
		failed = c.Run()
	}
	if failed != nil {
		cancel()
	}
	if err := errors.Join(failed, s.Wait()); err != nil {
		return output{}, fmt.Errorf("run %s: %w: %s", name(s), err, clientOut.Bytes())
	}
	after, err := sockio.SystemCPU()
	if err != nil {
		return output{}, err
	}
	out := output{server: serverOut.Bytes(), client: clientOut.Bytes(), cpu: used(s) + used(c)}
	out.others = max(0, (after-before-out.cpu).Seconds()/time.Since(begun).Seconds())
	return out, nil
}

// used is the CPU time of a command that has ended, from wait4.
func used(c *exec.Cmd) time.Duration {
	return c.ProcessState.UserTime() + c.ProcessState.SystemTime()
}

func runOwn(ctx context.Context, o options, self string, k kind) (result, error) {
	common := []string{
		"-streams", strconv.Itoa(k.streams), "-duration", o.duration.String(), "-block", strconv.Itoa(k.own),
		"-nagle=" + strconv.FormatBool(o.nagle), "-congestion", o.congestion,
	}
	out, err := both(ctx, ownPort,
		append([]string{self, "end", "-listen", farAddress + ":" + ownPort}, common...),
		append([]string{self, "end", "-dial", farAddress + ":" + ownPort}, common...), o.duration)
	if err != nil {
		return result{}, err
	}
	var report model.EndReport
	if err := json.Unmarshal(out.server, &report); err != nil {
		return result{}, fmt.Errorf("read own report: %w", err)
	}
	if len(report.Flows) != 1 || len(report.Warnings) != 0 {
		return result{}, fmt.Errorf("own report is odd: %s", out.server)
	}
	f := report.Flows[0]
	return result{bits: float64(f.Bytes) * 8 / f.Window.Seconds(), bytes: float64(f.Bytes), cpu: out.cpu, others: out.others}, nil
}

func runIperf(ctx context.Context, o options, k kind) (result, error) {
	client := []string{
		"iperf3", "--client", farAddress, "--port", iperfPort, "--json", "--parallel", strconv.Itoa(k.streams),
		"--time", strconv.Itoa(int(o.duration.Seconds())), "--congestion", o.congestion,
	}
	if !o.nagle {
		client = append(client, "--no-delay")
	}
	if k.iperf != 0 {
		client = append(client, "--length", strconv.Itoa(k.iperf))
	}
	out, err := both(ctx, iperfPort, []string{"iperf3", "--server", "--one-off", "--port", iperfPort}, client, o.duration)
	if err != nil {
		return result{}, err
	}
	var report struct {
		End struct {
			Received struct {
				Bytes float64 `json:"bytes"`
				Bits  float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out.client, &report); err != nil {
		return result{}, fmt.Errorf("read report of iperf3: %w", err)
	}
	if report.End.Received.Bytes == 0 {
		return result{}, fmt.Errorf("iperf3 received nothing: %s", out.client)
	}
	return result{bits: report.End.Received.Bits, bytes: report.End.Received.Bytes, cpu: out.cpu, others: out.others}, nil
}
