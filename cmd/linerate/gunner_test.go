package main

import (
	"bytes"
	"context"
	"crypto/rand"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/measure/engine"
)

// The bystander's addresses on the links to the ends.
const (
	toNear = "10.77.1.3"
	toFar  = "10.77.2.3"
)

// gunner is the client of TestServerIsNoCannon.
func gunner(ctx context.Context, link string) error {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	l, err := tls.ParseLink(link)
	if err != nil {
		return err
	}
	p, err := tls.Dial(ctx, l, model.Egress{})
	if err != nil {
		return err
	}
	c, err := session.Open(ctx, p, session.Options{Host: model.Far, Version: "v0.0.0"})
	if err != nil {
		return err
	}
	prepared := session.Preparation{Run: 1, Flow: model.Flow{
		Engine: "udpflow", Direction: model.From, Streams: 1, Duration: 3 * time.Second, Interval: time.Second, Params: traffic.Write(udp.Params{Rate: 50e6}),
	}}
	_, _ = rand.Read(prepared.Token[:])
	if _, err := c.Prepare(ctx, prepared); err != nil {
		return err
	}
	go func() { _ = forge(ctx, p.DataHost, p.DataPort, prepared.Token) }()
	err = c.Run(ctx, 1, func(e session.Event) {
		if e.Kind == session.Ready {
			go func() { _ = c.Start(ctx, 1) }()
		}
	})
	_, closing := c.Close(context.WithoutCancel(ctx))
	return errors.Join(err, closing)
}

// forge plays the connector of a UDP flow's sockets: greetings come from the bystander, and the
// rendezvous claims that they were answered.
func forge(ctx context.Context, host string, server int, token data.Token) error {
	addr := net.JoinHostPort(host, strconv.Itoa(server))
	line, _, err := data.Dial(ctx, addr, token, 0, engine.SocketOptions{})
	if err != nil {
		return err
	}
	if _, err := line.Write(append([]byte("lr-line1"), make([]byte, 16)...)); err != nil {
		return err
	}
	rendezvous, _, err := data.Dial(ctx, addr, token, 1, engine.SocketOptions{})
	if err != nil {
		return err
	}
	port := make([]byte, 2)
	if _, err := io.ReadFull(rendezvous, port); err != nil {
		return err
	}
	d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(toFar)}}
	udp, err := d.DialContext(ctx, "udp4", net.JoinHostPort(host, strconv.Itoa(int(endian.BigEndian.Uint16(port)))))
	if err != nil {
		return err
	}
	greeting := slices.Concat([]byte("lr-udp-1"), token[:], make([]byte, 4+16))
	for range 5 {
		if _, err := udp.Write(greeting); err != nil {
			return err
		}
	}
	<-time.After(200 * time.Millisecond) // they arrive before the word does
	_, err = rendezvous.Write(append([]byte{6}, make([]byte, 16)...))
	if err == nil {
		_, err = io.Copy(io.Discard, line) // until the server has enough
	}
	return err
}

// aim is the server of TestControllerIsNoCannon at listen: it is the real one at the port below,
// except for the source of its UDP answers.
func aim(ctx context.Context, listen string) error {
	at, err := net.ResolveUDPAddr("udp4", listen)
	if err != nil {
		return err
	}
	server := net.JoinHostPort(at.IP.String(), strconv.Itoa(at.Port-1))
	go func() { _ = relayTo(ctx, listen, server) }()
	front, err := net.ListenUDP("udp4", at)
	if err != nil {
		return err
	}
	forged, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(toNear)})
	if err != nil {
		return err
	}
	fmt.Println("listening")
	backs := map[string]net.Conn{}
	for b := make([]byte, 1<<16); ; {
		n, from, err := front.ReadFromUDP(b)
		if err != nil {
			return err
		}
		back, known := backs[from.String()]
		if !known {
			if back, err = (&net.Dialer{}).DialContext(ctx, "udp4", server); err != nil {
				return err
			}
			backs[from.String()] = back
			go func() {
				for b := make([]byte, 1<<16); ; {
					n, err := back.Read(b)
					if err != nil {
						return
					}
					if _, err := forged.WriteToUDP(b[:n], from); err == nil {
						fmt.Println("answer")
					}
				}
			}()
		}
		if _, err := back.Write(b[:n]); err != nil {
			return err
		}
	}
}

// relayTo forwards TCP connections.
func relayTo(ctx context.Context, listen, target string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	for {
		near, err := l.Accept()
		if err != nil {
			return err
		}
		far, err := (&net.Dialer{}).DialContext(ctx, "tcp", target)
		if err != nil {
			return err
		}
		for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
			go func() {
				handOn(way[0], way[1])
				_ = way[0].(*net.TCPConn).CloseWrite()
			}()
		}
	}
}

// handOn copies, except for the UDP port at the beginning of a rendezvous, which it replaces by
// the relay's.
func handOn(to io.Writer, from io.Reader) {
	own, other := endian.BigEndian.AppendUint16(nil, 5299), endian.BigEndian.AppendUint16(nil, 5300)
	for b := make([]byte, 1<<16); ; {
		n, err := from.Read(b)
		if n <= 3 && bytes.HasSuffix(b[:n], own) {
			copy(b[n-2:], other)
		}
		if _, failed := to.Write(b[:n]); failed != nil || err != nil {
			return
		}
	}
}
