;; A filter for stock Envoy: says the route's cluster where Higress' SDK looks for it.
;;
;; Higress' gateway has a property `cluster_name`, which the SDK's RouteCluster reads; stock Envoy
;; has none. Put before the plugin, this filter sets that property on each request to what its own
;; plugin configuration says: the name of the route's cluster, and nothing else.
;;
;; Listeners with the same vm_id share one VM, each with a root context of its own. So names are
;; kept by root context, in a list whose newest entry comes first:
;;     +0 next entry   +4 root context   +8 name   +12 size of name
;; The entries and what the host allocates share the one page, from $free upwards.
(module
  (import "env" "proxy_get_buffer_bytes"
    (func $get_buffer_bytes (param $kind i32) (param $start i32) (param $size i32)
      (param $to_pointer i32) (param $to_size i32) (result i32)))
  (import "env" "proxy_set_property"
    (func $set_property (param $key i32) (param $key_size i32)
      (param $value i32) (param $value_size i32) (result i32)))

  (memory (export "memory") 1 1)
  (data (i32.const 16) "cluster_name")  ;; 12 bytes; address 0 stays the null pointer

  (global $free (mut i32) (i32.const 32))
  (global $newest (mut i32) (i32.const 0))
  (global $root (mut i32) (i32.const 0))  ;; of the request whose headers come next

  ;; This export is how a host recognises a proxy-Wasm module, and which ABI it speaks.
  (func (export "proxy_abi_version_0_2_1"))

  ;; Gives `size` bytes, a multiple of 4 apart, or 0 when the page is full. Nothing is ever freed:
  ;; what is asked for is one entry and one name per configuration.
  (func $allocate (export "proxy_on_memory_allocate") (param $size i32) (result i32)
    (local $start i32)
    (if (i32.gt_u (local.get $size) (i32.sub (i32.const 65532) (global.get $free)))
      (then (return (i32.const 0))))
    (local.set $start (global.get $free))
    (global.set $free
      (i32.and (i32.add (i32.add (local.get $start) (local.get $size)) (i32.const 3))
               (i32.const -4)))
    (local.get $start))

  (func (export "proxy_on_vm_start") (param $root i32) (param $size i32) (result i32)
    (i32.const 1))

  ;; Keeps the configured name. Refuses an empty one, so that Envoy refuses the listener.
  (func (export "proxy_on_configure") (param $root i32) (param $size i32) (result i32)
    (local $entry i32)
    (if (i32.eqz (local.get $size)) (then (return (i32.const 0))))
    (local.set $entry (call $allocate (i32.const 16)))
    (if (i32.eqz (local.get $entry)) (then (return (i32.const 0))))
    (if (call $get_buffer_bytes
          (i32.const 7)  ;; BufferType PluginConfiguration
          (i32.const 0) (local.get $size)
          (i32.add (local.get $entry) (i32.const 8))
          (i32.add (local.get $entry) (i32.const 12)))
      (then (return (i32.const 0))))
    (i32.store (local.get $entry) (global.get $newest))
    (i32.store offset=4 (local.get $entry) (local.get $root))
    (global.set $newest (local.get $entry))
    (i32.const 1))

  ;; Envoy creates a request's context and gives it the request's headers in one go (decodeHeaders
  ;; in source/extensions/common/wasm/context.cc), so one global holds the root between the two.
  (func (export "proxy_on_context_create") (param $context i32) (param $parent i32)
    (global.set $root (local.get $parent)))

  ;; Sets the property to the name its root context was configured with. Always continues (0).
  (func (export "proxy_on_request_headers")
    (param $context i32) (param $headers i32) (param $end_of_stream i32) (result i32)
    (local $entry i32)
    (local.set $entry (global.get $newest))
    (block $found
      (loop $next
        (br_if $found (i32.eqz (local.get $entry)))
        (br_if $found (i32.eq (i32.load offset=4 (local.get $entry)) (global.get $root)))
        (local.set $entry (i32.load (local.get $entry)))
        (br $next)))
    (if (local.get $entry)
      (then
        (drop (call $set_property
          (i32.const 16) (i32.const 12)
          (i32.load offset=8 (local.get $entry)) (i32.load offset=12 (local.get $entry))))))
    (i32.const 0))

  ;; Nothing is left to wait for.
  (func (export "proxy_on_done") (param $context i32) (result i32)
    (i32.const 1)))
