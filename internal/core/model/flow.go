package model

import (
	"time"

	"linerate/internal/core/units"
)

// Flow describes the test traffic of one run. The zero value of a field means
// the engine's default, which the engine states in its documentation.
type Flow struct {
	Engine     string        `json:"engine"`               // "tcpbulk"
	Direction  Direction     `json:"direction"`            //
	Streams    int           `json:"streams,omitempty"`    // parallel connections per direction; 0 is 1
	Duration   time.Duration `json:"duration_ns"`          // measured time after Omit; 0 only with Bytes
	Bytes      units.Bytes   `json:"bytes,omitempty"`      // payload per direction instead of Duration
	Omit       time.Duration `json:"omit_ns"`              // sent and stored, not counted
	Interval   time.Duration `json:"interval_ns"`          // reporting step; 0 is 1 s
	Block      units.Bytes   `json:"block,omitempty"`      // bytes per write; 0 is the engine's choice
	Window     units.Bytes   `json:"window,omitempty"`     // SO_SNDBUF and SO_RCVBUF; 0 leaves autotuning on
	MSS        int           `json:"mss,omitempty"`        // TCP_MAXSEG in bytes; 0 leaves it to the path
	Nagle      bool          `json:"nagle,omitempty"`      // true leaves Nagle's algorithm on (TCP_NODELAY off)
	Congestion string        `json:"congestion,omitempty"` // congestion control of the sender; "" is the system's
	// What belongs to one engine only; nil is that engine's default. What these
	// point to is never written to: a change replaces it.
	UDP      *UDPFlow  `json:"udp,omitempty"`      // udpflow, and loaded over it
	Sweep    *Sweep    `json:"sweep,omitempty"`    // pingpong
	Requests *Requests `json:"requests,omitempty"` // reqresp
	Loaded   *Loaded   `json:"loaded,omitempty"`   // loaded
	Copy     *Copy     `json:"copy,omitempty"`     // filecopy
}

// Length is how long f lasts by its own word: probing without load, warm-up and
// measured time. Where bytes or sizes of messages end it, it lasts longer.
func (f *Flow) Length() time.Duration {
	length := f.Omit + f.Duration
	if f.Loaded != nil {
		length += f.Loaded.Idle
	}
	return length
}

// Datagrams reports whether the payload of f, or of the load that it probes
// beside, travels in UDP datagrams.
func (f *Flow) Datagrams() bool {
	return f.Engine == "udpflow" || f.Loaded != nil && f.Loaded.Engine == "udpflow"
}

// UDPFlow are the settings of engine udpflow. Its datagrams have Flow.Block
// bytes of payload, 16 to 65507.
type UDPFlow struct {
	Rate   units.BitRate `json:"rate,omitempty"`   // of payload, per direction, over all streams; 0 is as fast as possible
	Pacing string        `json:"pacing,omitempty"` // "kernel", "clock"; "" is the better one that works here
	Plain  bool          `json:"plain,omitempty"`  // no segmentation offload: the kernel sees each datagram by itself
}

// Sweep are the settings of engine pingpong.
type Sweep struct {
	Sizes []units.Bytes `json:"sizes"`           // of messages, in the order in which they are measured
	Mode  string        `json:"mode,omitempty"`  // SweepPingPong ("" too), SweepBoth, SweepStream
	Fresh bool          `json:"fresh,omitempty"` // a new connection for each size
	Spin  bool          `json:"spin,omitempty"`  // wait by polling, which costs a core and saves a wake-up
}

// The modes of a sweep.
const (
	SweepPingPong = "pingpong" // one message in flight: there, and back
	SweepBoth     = "both"     // both ends send at the same time
	SweepStream   = "stream"   // one message after the other, answered once at the end
)

// Requests are the settings of engine reqresp. A request has Flow.Block bytes.
type Requests struct {
	Rate    float64     `json:"rate,omitempty"`    // arrivals per second over all streams, on a fixed schedule; 0 is one after the other
	Reply   units.Bytes `json:"reply,omitempty"`   // bytes of an answer; 0 is as many as the request
	Connect bool        `json:"connect,omitempty"` // a new connection for each request
	Spin    bool        `json:"spin,omitempty"`    // wait by polling
}

// Loaded are the settings of engine loaded, whose other settings are those of
// the load.
type Loaded struct {
	Engine string        `json:"engine,omitempty"`  // that makes the load: "tcpbulk" ("" too) or "udpflow"
	Idle   time.Duration `json:"idle_ns,omitempty"` // probing without load before Omit begins; 0 is none
}

// Copy are the settings of engine filecopy.
type Copy struct {
	Mode   string `json:"mode,omitempty"`   // CopyFiles ("" too) or one part alone
	Source string `json:"source,omitempty"` // at the sender: "memory" ("" too), "disk", or the path of a file or folder
	Sink   string `json:"sink,omitempty"`   // at the receiver: "memory" ("" too), "disk", or the path of a folder or of a new file
	Direct bool   `json:"direct,omitempty"` // past the page cache (O_DIRECT and its like)
	Sync   bool   `json:"sync,omitempty"`   // flushing to the disk is part of the timed write
	Plain  bool   `json:"plain,omitempty"`  // read and write through user memory where sendfile could serve
}

// The ends of a copy that are no paths.
const (
	CopyInMemory = "memory" // a file in a RAM disk
	CopyOnDisk   = "disk"   // a file of linerate's on a disk
)

// The modes of a copy. The parts alone move nothing over the network; the end
// that does the work reports as the direction's receiver.
const (
	CopyFiles   = "copy"    // source to sink over the network
	CopyNetwork = "network" // memory to memory, no files
	CopyRead    = "read"    // the sender reads its source alone
	CopyWrite   = "write"   // the receiver writes its sink alone
	CopyMemory  = "memory"  // the sender copies memory to memory alone
)
