-- The ends are near and far; a and b were their names until here. What stands as JSON
-- is read under both names.
UPDATE samples SET host = CASE host WHEN 'a' THEN 'near' ELSE 'far' END WHERE host IN ('a', 'b');
UPDATE changes SET host = CASE host WHEN 'a' THEN 'near' ELSE 'far' END WHERE host IN ('a', 'b');
UPDATE run_values SET metric = CASE metric
    WHEN 'cpu_a' THEN 'cpu_near' WHEN 'cpu_b' THEN 'cpu_far'
    WHEN 'cpu_per_gbit_a' THEN 'cpu_per_gbit_near' ELSE 'cpu_per_gbit_far' END
WHERE metric IN ('cpu_a', 'cpu_b', 'cpu_per_gbit_a', 'cpu_per_gbit_b');
UPDATE verdicts SET metric = CASE metric WHEN 'cpu_per_gbit_a' THEN 'cpu_per_gbit_near' ELSE 'cpu_per_gbit_far' END
WHERE metric IN ('cpu_per_gbit_a', 'cpu_per_gbit_b');
