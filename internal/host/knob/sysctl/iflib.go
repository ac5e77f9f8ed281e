package sysctl

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"linerate/internal/regex"
)

// iflibName matches settings of FreeBSD's iflib(4) with which 0 means the driver's choice:
//
//	dev.em.0.iflib.override_nrxds   receive descriptors
//	dev.em.0.iflib.override_ntxqs   transmit queues
var iflibName = regex.New(`^dev\.([a-z0-9_]+)\.([0-9]+)\.iflib\.override_n(rx|tx)(ds|qs)$`)

// driverChoice returns the value that a driver chose if name, which holds value, leaves it to
// the driver: "1024"; "" if it does not, or the choice is unknown. The rings are in the
// kernel log (iflib_queues_alloc, sys/net/iflib.c), the queues are nodes of the tree:
//
//	em0: Using 1024 TX descriptors and 1024 RX descriptors
//	dev.em.0.iflib.rxq0.rxq_fl0.credits: 128
func driverChoice(name, value string, log func() string, exists func(name string) bool) string {
	part := iflibName.FindStringSubmatch(name)
	if part == nil || strings.Trim(value, "0") != "" {
		return ""
	}
	driver, unit, direction := part[1], part[2], part[3]
	if part[4] == "qs" {
		n := 0
		for n < 1024 && exists(fmt.Sprintf("dev.%s.%s.iflib.%sq%d", driver, unit, direction, n)) {
			n++
		}
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	said := regexp.MustCompile(`(?m)^(?:<[0-9]+>)?`+regexp.QuoteMeta(driver+unit)+`: Using ([0-9]+) TX descriptors and ([0-9]+) RX descriptors`).FindAllStringSubmatch(log(), -1)
	if len(said) == 0 {
		return ""
	}
	last := said[len(said)-1] // a reloaded driver logs it again
	if direction == "tx" {
		return last[1]
	}
	return last[2]
}
