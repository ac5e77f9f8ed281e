package wire

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/units"
)

const (
	// quantum is the pause between two checks of a busy line. It limits wake-ups to 20 000 a
	// second, and adds at most itself to the delay of a frame.
	quantum = 50 * time.Microsecond

	// busyGap is the mean distance of frames below which a direction counts as busy: full
	// frames at 0.5 Gbit/s.
	busyGap = 25 * time.Microsecond

	// quietGap is the mean distance above which a direction counts as quiet. Only then does it
	// spin just before a frame is due, which costs at most spinAhead/quietGap = 4 % of a core.
	quietGap = 1 * time.Millisecond

	// spinAhead is about how late a timer wakes a thread from a short sleep (9-20 us measured
	// with a timer slack of 1 ns).
	spinAhead = 40 * time.Microsecond

	// dozeAhead is more than a timer is late after a long sleep, when the core sleeps deeply
	// (60-110 us after 10 ms, same measurement). A long sleep ends that much earlier and a
	// short one follows.
	dozeAhead = 300 * time.Microsecond

	// maxRead bounds the frames read before due ones are passed on.
	maxRead = 256
)

// Config describes a wire between two hosts.
type Config struct {
	To, From    Path          // from the near host to the far one, and back
	Leave, Back Answers       // of the router that sends into To, and into From
	HalfDuplex  bool          // both directions share one medium
	Bus         units.BitRate // of a bus that both directions share before the link; 0 is no bus
	Seed        uint64        // of loss, jitter, reordering and duplication
	FrameBytes  int           // of the largest frame, header included
}

// Wire moves frames between two ports.
type Wire struct {
	ab, ba *pump
	stop   int // eventfd
	wg     sync.WaitGroup
	once   sync.Once
}

// Start moves frames between a and b until Close. It takes ownership of the ports, even if it
// fails.
func Start(cfg Config, a, b Port) (*Wire, error) {
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("create eventfd: %w", err), a.Close(), b.Close())
	}
	start := time.Now()
	there := &medium{}
	back := &medium{}
	if cfg.HalfDuplex {
		back = there
	}
	w := &Wire{
		stop: stop,
		ab:   newPump(cfg, cfg.To, cfg.Leave, there, 0, a, b, stop, start),
		ba:   newPump(cfg, cfg.From, cfg.Back, back, 1, b, a, stop, start),
	}
	bus := &medium{}
	w.ab.line.behind(bus, cfg.Bus)
	w.ba.line.behind(bus, cfg.Bus)
	w.wg.Go(w.ab.run)
	w.wg.Go(w.ba.run)
	return w, nil
}

// Counters returns the exact counters of both directions so far.
func (w *Wire) Counters() (ab, ba Counters) {
	for _, p := range []*pump{w.ab, w.ba} {
		p.line.count.missed.Add(p.in.missed())
	}
	return w.ab.line.count.read(), w.ba.line.count.read()
}

// Close stops both directions, waits for them and closes the ports.
func (w *Wire) Close() error {
	var err error
	w.once.Do(func() {
		w.ab.stopped.Store(true)
		w.ba.stopped.Store(true)
		_, err = unix.Write(w.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		w.wg.Wait()
		err = errors.Join(err, unix.Close(w.stop), w.ab.in.Close(), w.ba.in.Close())
	})
	return err
}

// pump is one running direction.
type pump struct {
	in, out Port
	line    *line
	answers *answers // nil unless after a router that is silent or late
	start   time.Time
	stopped atomic.Bool
	fds     []unix.PollFd // stop, in

	spare    int32 // slot to receive into
	hasSpare bool
	last     int64   // arrival of the last frame
	gap      float64 // mean distance of frames, nanoseconds
	woke     int64

	frames [][]byte // due now
	slots  []int32
}

func newPump(cfg Config, path Path, own Answers, m *medium, stream uint64, in, out Port, stop int, start time.Time) *pump {
	frames := newPool(cfg.FrameBytes)
	return &pump{
		in: in, out: out, start: start,
		line:    newLine(path, m, cfg.Seed, stream, frames, &counters{}),
		answers: newAnswers(own, cfg.Seed, stream+2), // used by neither line
		fds: []unix.PollFd{
			{Fd: int32(stop), Events: unix.POLLIN},
			{Fd: int32(in.fd()), Events: unix.POLLIN},
		},
		gap:    float64(quietGap),
		frames: make([][]byte, 0, batch),
		slots:  make([]int32, 0, batch),
	}
}

// run runs the direction's thread: read frames, pass on due ones, wait.
func (p *pump) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// The usual 50 us of slack would be added to every wait. A thread may always set its own.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	for !p.stopped.Load() {
		n := p.take()
		if p.answers != nil {
			p.release()
		}
		p.hand()
		if n < maxRead {
			p.wait(n)
		}
	}
}

func (p *pump) now() int64 { return int64(time.Since(p.start)) }

// take moves waiting frames into the line and returns their number.
func (p *pump) take() int {
	t := time.Now()
	wallNow, now := t.UnixNano(), int64(t.Sub(p.start))
	for n := range maxRead {
		if !p.hasSpare {
			p.spare, p.hasSpare = p.line.pool.get()
		}
		if !p.hasSpare {
			return p.discard(n)
		}
		size, wall, ok := p.in.receive(p.line.pool.bytes(p.spare))
		if !ok {
			return n
		}
		arrived := now - (wallNow - wall)
		// A frame may be newer than the start of this call, if the thread did not run for a
		// while: its own time counts. A time far from now is a step of the wall clock, and a
		// missing stamp is zero.
		if far := int64(100 * time.Millisecond); wall == 0 || max(arrived-now, now-arrived) > far {
			arrived = p.now()
		}
		p.last = max(p.last, arrived)
		if p.answers != nil && p.holds(size) {
			continue
		}
		p.hasSpare = !p.line.push(p.last, p.spare, size)
	}
	return maxRead
}

// holds reports whether the frame just received does not go to the line now: it is dropped, or
// delayed.
func (p *pump) holds(size int) bool {
	if !ownError(p.line.pool.bytes(p.spare)[:size]) {
		return false
	}
	if !p.answers.Silent {
		p.answers.hold(p.last, p.spare, size)
		p.hasSpare = false
	}
	return true
}

// release passes delayed frames to the line.
func (p *pump) release() {
	a := p.answers
	for now := p.now(); len(a.held) > 0 && a.held[0].left <= now; a.held = a.held[1:] {
		e := a.held[0]
		p.last = max(p.last, e.left)
		if !p.line.push(p.last, e.slot, int(e.size)) {
			p.line.pool.put(e.slot)
		}
	}
}

// discard reads a frame for which there is no memory and counts it as a queue drop: the line is
// longer than any real queue.
func (p *pump) discard(n int) int {
	var junk [1]byte
	if _, _, ok := p.in.receive(junk[:]); ok {
		p.line.count.frames.Add(1)
		p.line.count.queueDrops.Add(1)
		n++
	}
	return n
}

// hand passes all due frames to the receiving host.
func (p *pump) hand() {
	for now := p.now(); ; {
		e, ok := p.line.pop(now)
		if ok {
			frame := p.line.pool.bytes(e.slot)[:e.size]
			p.frames = append(p.frames, frame)
			p.slots = append(p.slots, e.slot)
			p.line.count.outBytes.Add(uint64(e.size))
			if e.fate == twice {
				p.frames = append(p.frames, frame)
				p.line.count.outBytes.Add(uint64(e.size))
			}
		}
		if len(p.frames) >= batch-1 || !ok {
			p.flush()
		}
		if !ok {
			return
		}
	}
}

func (p *pump) flush() {
	if len(p.frames) == 0 {
		return
	}
	accepted := p.out.send(p.frames)
	p.line.count.delivered.Add(uint64(accepted))
	p.line.count.refused.Add(uint64(len(p.frames) - accepted))
	for _, s := range p.slots {
		p.line.pool.put(s)
	}
	p.frames, p.slots = p.frames[:0], p.slots[:0]
}

// wait pauses until there may be something to do, after n frames were read.
func (p *pump) wait(n int) {
	now := p.now()
	p.learn(now, n)
	due, pending := p.line.next()
	if p.answers != nil && len(p.answers.held) > 0 {
		if at := p.answers.held[0].left; !pending || at < due {
			due, pending = at, true
		}
	}
	ahead := time.Duration(due - now)
	switch {
	case pending && ahead <= 0:
		return
	case p.gap < float64(busyGap):
		// Not waiting for input: at this rate each frame would wake the thread.
		poll(p.fds[:1], quantum)
	case !pending:
		poll(p.fds, -1)
	case p.gap > float64(quietGap) && ahead <= spinAhead:
		return // spin
	case p.gap > float64(quietGap) && ahead > 2*dozeAhead:
		poll(p.fds, ahead-dozeAhead)
	case p.gap > float64(quietGap):
		poll(p.fds, ahead-spinAhead)
	default:
		poll(p.fds, ahead)
	}
	p.line.count.wakes.Add(1)
}

// learn updates the mean distance of frames.
func (p *pump) learn(now int64, n int) {
	since := float64(now - p.woke)
	if n > 0 {
		p.gap += (since/float64(n) - p.gap) / 8
		p.woke = now
	} else if since > p.gap {
		p.gap += (since - p.gap) / 8
	}
}
