package filecopy

import (
	"errors"
	"fmt"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/panics"
)

// send does the sender's part of a copy.
func (r *course) send() error {
	source, err := r.offer()
	if err != nil {
		return err
	}
	if err := writeMessage(r.conn, message{Kind: kindReady}); err != nil {
		return err
	}
	if _, err := readMessage(r.conn, kindGo); err != nil {
		return err
	}
	// The receiver's next message is its final one. It is early if the receiver fails, and then
	// the receiver reads no more data.
	verdict := make(chan error, 1)
	r.sending = true
	m := r.startMeter()
	before := readTCP(r.conn)
	go panics.From(func(err error) { r.fail(err); verdict <- err }, func() {
		_, err := readMessage(r.conn, kindDone)
		if err != nil && !r.finished.Load() {
			r.interrupt(err.Error())
		}
		verdict <- err
	})()
	err = r.why(sendAll(r.conn, source, m, r.maker.buf, r.copy.Plain))
	m.end()
	f := m.flow(model.Sender)
	f.TCP = summary(r.conn, before)
	r.flows = append(r.flows, f)
	r.how = append(r.how, "source: "+source.how())
	if err == nil {
		err = r.conclude(source)
	}
	if err != nil {
		err = r.why(err)
		_ = r.conn.CloseRead()
		_ = r.conn.CloseWrite()
	}
	return errors.Join(err, said(<-verdict, err))
}

// said returns the receiver's final message, unless reading it failed because of err.
func said(verdict, err error) error {
	var peer *errPeer
	if err == nil || errors.As(verdict, &peer) {
		return verdict
	}
	return nil
}

// conclude sends the digest of the source.
func (r *course) conclude(source *store) error {
	if !source.summed {
		sum, err := source.digest(r.maker.buf, r.halted)
		if err != nil {
			return fmt.Errorf("read source again: %w", err)
		}
		source.sum = sum
	}
	r.finish()
	return writeMessage(r.conn, message{Kind: kindDigest, Digest: source.sum[:]})
}

// offer announces the size, creates the source and waits until the receiver is ready.
func (r *course) offer() (*store, error) {
	size, open, err := r.plan()
	if err != nil {
		return nil, err
	}
	if err := writeMessage(r.conn, message{Kind: kindOffer, Bytes: size}); err != nil {
		return nil, err
	}
	source, err := r.keep(open())
	if err != nil {
		return nil, err
	}
	_, err = readMessage(r.conn, kindReady)
	return source, err
}

// plan returns the size to send and the function that creates the source.
func (r *course) plan() (int64, func() (*store, error), error) {
	if r.copy.Mode == files.Network {
		size, err := r.maker.plainSize()
		return size, func() (*store, error) { return r.maker.plain(size, true) }, err
	}
	p, size, err := r.maker.source(r.copy.Source)
	return size, func() (*store, error) { return r.maker.openSource(p, size) }, err
}

// receive does the receiver's part of a copy.
func (r *course) receive() error {
	offer, err := readMessage(r.conn, kindOffer)
	if err != nil {
		return err
	}
	if want := r.maker.bytes; want != 0 && offer.Bytes != want {
		return fmt.Errorf("the sender offers %d bytes where %d were asked for", offer.Bytes, want)
	}
	sink, err := r.keep(r.makeSink(offer.Bytes))
	if err != nil {
		return err
	}
	if err := writeMessage(r.conn, message{Kind: kindReady}); err != nil {
		return err
	}
	if _, err := readMessage(r.conn, kindReady); err != nil {
		return err
	}
	m := r.startMeter()
	if err = writeMessage(r.conn, message{Kind: kindGo}); err == nil {
		err = receiveAll(r.conn, sink, m, r.maker.buf, r.halted)
	}
	if err == nil {
		err = r.flush(sink)
	}
	m.end()
	if m.moved.Load() > 0 {
		r.flows = append(r.flows, m.flow(model.Receiver))
	}
	r.how = append(r.how, "sink: "+sink.how())
	r.Complete()
	if err != nil {
		return err
	}
	return r.compare(sink)
}

func (r *course) makeSink(size int64) (*store, error) {
	if r.copy.Mode == files.Network {
		return r.maker.plain(size, false)
	}
	return r.maker.sink(r.copy.Sink, size)
}

// flush writes the sink to disk if the measured time includes that.
func (r *course) flush(sink *store) error {
	switch {
	case !sink.onDisk():
		return nil
	case !r.copy.Sync:
		sink.note("not flushed")
		return nil
	}
	r.meter.flushing.Store(true)
	defer r.meter.flushing.Store(false)
	sink.note("flushed within the time")
	return sink.settle()
}

// compare reads the sink back, from the disk if possible, and compares its digest with the
// sender's.
func (r *course) compare(sink *store) error {
	if err := sink.settle(); err != nil {
		return fmt.Errorf("flush sink: %w", err)
	}
	if sink.onDisk() && !sink.direct {
		// If this fails, the comparison reads the page cache.
		_, _ = dropCache(sink.file)
	}
	sum, err := sink.digest(r.maker.buf, r.halted)
	if err != nil {
		return fmt.Errorf("read sink back: %w", err)
	}
	of, err := readMessage(r.conn, kindDigest)
	if err != nil {
		return err
	}
	if digest(of.Digest) != sum {
		return fmt.Errorf("what was stored differs from what was sent: SHA-256 %x where the source has %x", sum[:8], of.Digest[:8])
	}
	r.finish()
	return writeMessage(r.conn, message{Kind: kindDone})
}

// alone does the work of an end that measures one part of a copy.
func (r *course) alone() error {
	from, to, err := r.parts()
	if err != nil {
		return err
	}
	m := r.startMeter()
	err = moveAll(from, to, m, r.maker.buf, r.halted)
	if err == nil && to != nil {
		err = r.flush(to)
	}
	m.end()
	if m.moved.Load() > 0 {
		r.flows = append(r.flows, m.flow(model.Receiver))
	}
	for _, s := range []struct {
		name string
		*store
	}{{"source: ", from}, {"sink: ", to}} {
		if s.store != nil {
			r.how = append(r.how, s.name+s.how())
		}
	}
	r.Complete()
	if err != nil {
		return err
	}
	if err := r.check(from, to); err != nil {
		return err
	}
	r.finish()
	return writeMessage(r.conn, message{Kind: kindDone})
}

// parts creates the source and the target of such a part; to is nil if it only reads.
func (r *course) parts() (from, to *store, err error) {
	switch r.copy.Mode {
	case files.Read:
		p, size, err := r.maker.source(r.copy.Source)
		if err != nil {
			return nil, nil, err
		}
		from, err = r.keep(r.maker.openSource(p, size))
		return from, nil, err
	case files.Write:
		if r.maker.bytes, err = r.maker.sinkSize(r.copy.Sink); err != nil {
			return nil, nil, err
		}
		if from, err = r.keep(r.maker.plain(r.maker.bytes, true)); err != nil {
			return nil, nil, err
		}
		to, err = r.keep(r.maker.sink(r.copy.Sink, r.maker.bytes))
		return from, to, err
	default:
		if r.maker.bytes, err = r.maker.plainSize(); err != nil {
			return nil, nil, err
		}
		if from, err = r.keep(r.maker.plain(r.maker.bytes, true)); err != nil {
			return nil, nil, err
		}
		to, err = r.keep(r.maker.plain(r.maker.bytes, false))
		return from, to, err
	}
}

// check reads back what was moved and compares it with the expected data. For a user's file
// there is no expected data.
func (r *course) check(from, to *store) error {
	last := to
	if last == nil {
		last = from
	}
	if err := last.settle(); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	if !from.summed {
		return nil
	}
	if last.onDisk() && !last.direct {
		_, _ = dropCache(last.file)
	}
	sum, err := last.digest(r.maker.buf, r.halted)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	if sum != from.sum {
		return fmt.Errorf("%s has other data than was written: SHA-256 %x instead of %x", last.where, sum[:8], from.sum[:8])
	}
	return nil
}

// wait is the part of an end that is idle while the other one works alone.
func (r *course) wait() error {
	r.finish()
	_, err := readMessage(r.conn, kindDone)
	var said *errPeer
	if text, ok := r.cause.Load().(string); err != nil && ok && !errors.As(err, &said) {
		r.warnings = append(r.warnings, text+" before the other end was done")
		return nil
	}
	return err
}
